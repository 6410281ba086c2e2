#!/bin/sh
# Runs after an installation and an upgrade. It creates the daemons' users and starts
# nothing: a new master or worker begins when the operator says so.
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers --root="${DPKG_ROOT:-/}" slotwise.conf
else
	echo "slotwise: before you start a daemon, create the system users slotwise and slotwise-worker" >&2
fi
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
