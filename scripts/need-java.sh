#!/usr/bin/env bash
# Says what to install unless the Java that Spark will use is there and new enough.
set -euo pipefail

REQUIRED=17
JAVA=${JAVA_HOME:+$JAVA_HOME/bin/}java

advise() {
  cat >&2 <<MESSAGE
$1
Spark needs Java $REQUIRED or newer. Install it with
  Debian, Ubuntu   sudo apt install openjdk-$REQUIRED-jre-headless
  Fedora           sudo dnf install java-$REQUIRED-openjdk-headless
  macOS            brew install openjdk@$REQUIRED
or set JAVA_HOME to the folder of one that is installed.
MESSAGE
  exit 1
}

# macOS has a `java` that only says there is none, so it has to be asked.
found=$("$JAVA" -version 2>&1) || advise "Java is missing: \`$JAVA\` cannot be run."
# The first line reads: openjdk version "17.0.15" 2025-04-15; Java 8 calls itself 1.8.
version=$(printf '%s\n' "$found" | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)
[ -n "$version" ] || advise "\`$JAVA -version\` says nothing that reads as a version: $found"
[ "$version" -ge "$REQUIRED" ] || advise "\`$JAVA\` is Java $version, which is too old."
