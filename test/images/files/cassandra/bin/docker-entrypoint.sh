#!/bin/bash
# Entry point with the contract of the official image: as root it gives the
# folders to the user cassandra and goes on as that; CASSANDRA_* become settings.
set -e
conf=${CASSANDRA_CONF:-/etc/cassandra}

if [ $# = 0 ] || [ "${1:0:1}" = - ]; then
	set -- cassandra -f "$@"
fi
if [ "$1" != cassandra ]; then
	exec "$@"
fi
if [ "$(id -u)" = 0 ]; then
	find "$conf" /var/lib/cassandra /var/log/cassandra \! -user cassandra -exec chown cassandra '{}' +
	exec gosu cassandra "${BASH_SOURCE[0]}" "$@"
fi

edit() { # file, expression: not in place, since the folder may be read-only for new files
	local text
	text=$(sed -r "$2" "$1")
	printf '%s\n' "$text" > "$1"
}
setting() { # key, value
	if grep -q "^$1:" "$conf/cassandra.yaml"; then
		edit "$conf/cassandra.yaml" "s|^$1:.*|$1: $2|"
	else
		printf '%s: %s\n' "$1" "$2" >> "$conf/cassandra.yaml"
	fi
}

address=$(hostname -i | cut -d' ' -f1)
: "${CASSANDRA_RPC_ADDRESS:=0.0.0.0}" "${CASSANDRA_LISTEN_ADDRESS:=auto}"
[ "$CASSANDRA_LISTEN_ADDRESS" != auto ] || CASSANDRA_LISTEN_ADDRESS=$address
: "${CASSANDRA_BROADCAST_ADDRESS:=$CASSANDRA_LISTEN_ADDRESS}"
[ "$CASSANDRA_BROADCAST_ADDRESS" != auto ] || CASSANDRA_BROADCAST_ADDRESS=$address
: "${CASSANDRA_BROADCAST_RPC_ADDRESS:=$CASSANDRA_BROADCAST_ADDRESS}" "${CASSANDRA_SEEDS:=$CASSANDRA_BROADCAST_ADDRESS}"

if [ -w "$conf/cassandra.yaml" ]; then
	edit "$conf/cassandra.yaml" "s|(- seeds:).*|\1 \"$CASSANDRA_SEEDS\"|"
	for key in broadcast_address broadcast_rpc_address cluster_name endpoint_snitch listen_address num_tokens rpc_address authenticator authorizer; do
		variable=CASSANDRA_${key^^}
		[ -z "${!variable}" ] || setting "$key" "${!variable}"
	done
	for key in dc rack; do
		variable=CASSANDRA_${key^^}
		[ -z "${!variable}" ] || edit "$conf/cassandra-rackdc.properties" "s|^$key=.*|$key=${!variable}|"
	done
fi
exec "$@"
