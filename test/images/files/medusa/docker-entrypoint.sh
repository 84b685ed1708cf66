#!/bin/bash
# Entry point with the contract of upstream's image: MEDUSA_MODE is GRPC or
# RESTORE, the configuration is /etc/medusa/medusa.ini.
set -e
ini=/etc/medusa/medusa.ini

restore() {
	poetry run python -m medusa.service.grpc.restore "$ini" "$RESTORE_KEY"
	echo "$RESTORE_KEY" > /var/lib/cassandra/.last-restore
}

serve() {
	poetry run python -m medusa.service.grpc.server server.py &
	server=$!
	before=$(md5sum "$ini")
	while sleep 5; do
		if ! kill -0 $server 2>/dev/null; then
			wait $server
			exit $?
		fi
		if [ "$(md5sum "$ini")" != "$before" ] && [ ! -e /tmp/medusa_backup_in_progress ]; then
			echo "The configuration has changed, stopping"
			kill $server
			exit 0
		fi
	done
}

sleep "${DEBUG_SLEEP:-0}"
case $MEDUSA_MODE in
RESTORE) restore ;;
GRPC) serve ;;
*)
	echo "MEDUSA_MODE has to be RESTORE or GRPC, not '$MEDUSA_MODE'"
	exit 1
	;;
esac
