#!/bin/bash
# Bitnami's entry point, as far as it matters: a fresh volume gets its folders.
set -e
mkdir -p /bitnami/cassandra/data
exec /usr/local/bin/docker-entrypoint.sh "$@"
