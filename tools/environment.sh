#!/bin/sh
# The environment of a clone, in the folder VENV (.venv).
#
#   tools/environment.sh run    what a node needs, and the `tidings` command: seconds, nothing is built
#   tools/environment.sh dev    what the tests need too: the three distributions are installed as links to this clone
#
# With uv on the PATH it is used. Without it the pip of the Python that was found installs into the environment. Python
# compiles a module when it first imports it: a node imports fewer than pip would compile.

set -eu

python=${PYTHON:-python3}
venv=${VENV:-.venv}
fail() { echo "setup: $1" >&2; exit 1; }

"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "Python 3.11 or newer is needed, $("$python" -V 2>&1) was found; name another: make PYTHON=python3.12"
"$python" -c 'import venv' 2>/dev/null ||
    fail "Python's venv is missing: install python3-venv (on Debian and Ubuntu: apt install python3-venv)"

add_pip() {
    "$venv/bin/python" -Im ensurepip --upgrade --default-pip >/dev/null 2>&1 ||
        fail "Python's ensurepip is missing: install python3-venv (on Debian and Ubuntu: apt install python3-venv)"
}

"$venv/bin/python" -c '' 2>/dev/null || "$python" -m venv --clear --without-pip "$venv"

if command -v uv >/dev/null 2>&1; then
    install() { uv pip install --python "$venv/bin/python" "$@"; }
elif "$python" -m pip --version >/dev/null 2>&1; then
    install() { "$python" -m pip --disable-pip-version-check --python "$venv/bin/python" install --no-compile "$@"; }
else
    add_pip
    install() { "$venv/bin/python" -m pip --disable-pip-version-check install --no-compile "$@"; }
fi

# The locks are complete, so no dependency is looked up. The log of the installer says how far it is.
lock() {
    packages=$(grep -c '==' "$1")
    echo "setup: installing $packages packages of $1 into $venv ..."
    install --no-deps --require-hashes -r "$1" >"$venv/install.log" 2>&1 &
    while kill -0 $! 2>/dev/null; do
        [ ! -t 1 ] || printf '\rsetup: %s of %s' "$(grep -c '^ *Collecting' "$venv/install.log")" "$packages"
        sleep 0.2
    done
    [ ! -t 1 ] || printf '\r'
    wait $! || { tail -5 "$venv/install.log" >&2; fail "the packages could not be installed; the log is $venv/install.log"; }
}

case $1 in
run)
    lock requirements/run.txt
    # A path file makes the clone importable, so that nothing has to be built.
    site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    printf '%s\n' "$PWD/src" "$PWD/clients/python/src" >"$site/tidings-clone.pth"
    printf '#!%s\nimport sys\n\nfrom tidings.cli.main import main\n\nsys.exit(main())\n' "$PWD/$venv/bin/python" >"$venv/bin/tidings"
    chmod 755 "$venv/bin/tidings"
    ;;
dev)
    lock requirements/dev.txt
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || add_pip
    rm -f "$venv"/lib/python3*/site-packages/tidings-clone.pth
    "$venv/bin/python" -m pip --disable-pip-version-check install -qq --no-deps --no-build-isolation \
        -e . -e ./clients/python -e ./proof
    ;;
*)
    fail "run or dev is needed, not $1"
    ;;
esac
