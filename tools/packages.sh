#!/bin/sh
# The Debian packages that tests use beside Python's: installed when this runs as root, named when it does not.
# Tests that need what is missing are skipped by name, so this never fails; `make test` calls it first. Services that a
# package would start are not started: a test starts its own, on ports of its own.
#
#   tools/packages.sh            installs what is missing
#   tools/packages.sh --check    only says what is missing; 1 when something is

set -u

# command  package                    what for
WANTED='
haproxy    haproxy                    three nodes behind a load balancer
java       default-jre-headless       DynamoDB Local
npm        npm                        fetches DynamoDB Local and azurite, once
chromium   chromium                   the page in a browser
chromium-headless-shell chromium-headless-shell the same at half the cost, for most of these tests
redis-server redis-server             Redis 7, beside the Valkey of the wheel
pg_ctlcluster postgresql              PostgreSQL, the tables for several hosts
pgbouncer  pgbouncer                  PostgreSQL behind a pool, in the long runs
nginx      nginx-light                the example of a proxy, in the long runs
faketime   faketime                   the clock of a Valkey that jumps, in torture
'

PATH=$PATH:/usr/sbin:/sbin

lacking() {
    echo "$WANTED" | while read -r command package what; do
        [ -z "$command" ] || command -v "$command" >/dev/null 2>&1 || echo "$package ($what)"
    done
}

missing=$(lacking)
[ -n "$missing" ] || exit 0

say_missing() {
    echo "packages: missing, and the tests that need them are skipped by name:"
    lacking | sed 's/^/  /'
}

if [ "${1:-}" = --check ]; then
    say_missing
    exit 1
fi
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    say_missing
    echo "  as root on Debian: tools/packages.sh"
    exit 0
fi

# invoke-rc.d asks this file whether a service may be started, and takes 101 for no.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
    printf '#!/bin/sh\nexit 101\n' >"$policy"
    chmod 755 "$policy"
    trap 'rm -f "$policy"' EXIT
fi

export DEBIAN_FRONTEND=noninteractive
apt-get -qq update >/dev/null 2>&1
echo "$missing" | while read -r package what; do
    echo "packages: installing $package ..."
    apt-get -qq -y --no-install-recommends install "$package" >/dev/null 2>&1 </dev/null
done
[ -z "$(lacking)" ] || say_missing
exit 0
