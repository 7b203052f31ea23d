#!/usr/bin/env bash
# Draws the secrets of the stack into the folder SECRETS, once: later starts find them. The environment has
# DATABASE_ADDRESS, the host and port of Postgres.
set -euo pipefail

keep() { # FILE COMMAND: what the command prints, unless the file is there
  local file="$SECRETS/$1"
  [ -s "$file" ] || { "$2" > "$file.new" && mv "$file.new" "$file"; }
}
random() { head -c 32 /dev/urandom | base64 --wrap=0; }
random_of_urls() { random | tr '+/' '-_'; }
password() { random | tr -dc 'A-Za-z0-9'; }
url() { printf 'postgresql+psycopg2://airflow:%s@%s/airflow' "$(cat "$SECRETS/database_password")" "$DATABASE_ADDRESS"; }

keep fernet_key random_of_urls # as Fernet wants it
keep jwt_secret random
keep api_secret_key random
keep database_password password
keep database_url url
