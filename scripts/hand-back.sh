#!/usr/bin/env bash
# hand-back.sh DIR...: gives what root made in folders of the checkout to the user who typed
# sudo, who shall be able to remove it. Without sudo it does nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

if [[ -n "${SUDO_UID:-}" ]]; then
	chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$@" 2>/dev/null || true
fi
