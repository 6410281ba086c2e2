#!/bin/sh
# Runs before a removal (Debian: remove, RPM: 0) and before an upgrade. Only a removal stops
# the daemons. A worker that drains goes on for a while, so nothing waits for its end.
set -e
case "$1" in
remove | 0)
	if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
		systemctl --no-block disable --now slotwise-master.service slotwise-worker.service
	fi
	;;
esac
