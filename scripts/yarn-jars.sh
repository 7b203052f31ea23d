#!/usr/bin/env bash
# Fetches Hadoop's clusters for tests (YARN and HDFS, each in one JVM) with Maven into .tools/yarn; the tests that need it find it there.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
folder=.tools/yarn
# The version is that of PySpark's own Hadoop classes.
artifacts=(
  org.apache.hadoop:hadoop-client-minicluster:3.5.0
  org.bouncycastle:bcpkix-jdk18on:1.80
  org.bouncycastle:bcprov-jdk18on:1.80
  org.bouncycastle:bcutil-jdk18on:1.80
  org.junit.jupiter:junit-jupiter-api:5.11.4
  org.junit.platform:junit-platform-commons:1.11.4
  org.opentest4j:opentest4j:1.3.0
)
command -v mvn >/dev/null || { echo "Maven is not installed: the tests on YARN and HDFS will be skipped"; exit 0; }
for artifact in "${artifacts[@]}"; do
  IFS=: read -r _ name version <<< "$artifact"
  [ -f "$folder/$name-$version.jar" ] || mvn -q -B dependency:copy -Dartifact="$artifact" -DoutputDirectory="$PWD/$folder"
done
