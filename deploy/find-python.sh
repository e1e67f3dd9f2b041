#!/bin/sh
# Print the path of the newest Python that the project can run on, or say in one line that none is
# there. Each candidate is tried, not believed: a pyenv shim exists for versions it then refuses.

usable() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' >/dev/null 2>&1
}

for name in python3.14 python3.13 python3.12; do
    path=$(command -v "$name") && usable "$path" && echo "$path" && exit 0
    for path in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/"${name#python}".*/bin/python; do
        usable "$path" && echo "$path" && exit 0
    done
done
path=$(command -v python3) && usable "$path" && echo "$path" && exit 0

echo "BoxOffice Agents needs Python 3.12 or newer with its venv module: install python3.13" \
    "(Debian: python3.13-venv too; pyenv: pyenv install 3.13) and try again." >&2
exit 1
