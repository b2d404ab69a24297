# For the scripts that set everything up themselves: a virtual environment in .venv inside this clone, made the first
# time. `prepare EXTRA` installs this package with that extra; `in_venv ARGUMENTS` runs the environment's Python.
#
# PYTHON=/path/to/python picks the interpreter for a new environment.

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
torch="2.13.0"

suits() { # a Python 3.10 or newer that can make environments
    "$1" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

pick_python() {
    local name
    for name in "${PYTHON:-}" python3 python python3.13 python3.12 python3.11 python3.10; do
        if [ -n "$name" ] && suits "$name"; then
            echo "$name"
            return
        fi
    done
    echo "No Python 3.10 or newer with venv was found (on Debian and Ubuntu: apt install python3-venv)." >&2
    exit 1
}

in_venv() { # .venv/bin on Unix, .venv/Scripts on Windows
    if [ -d "$root/.venv/Scripts" ]; then "$root/.venv/Scripts/python" "$@"; else "$root/.venv/bin/python" "$@"; fi
}

install_torch() { # a CPU build where pip knows one, else whatever runs here
    in_venv -c 'import torch' >/dev/null 2>&1 && return
    echo "Installing PyTorch ..."
    in_venv -m pip install --quiet "torch==$torch+cpu" 2>/dev/null ||
        in_venv -m pip install --quiet "torch==$torch" ||
        in_venv -m pip install --quiet torch
}

prepare() {
    # The stamp is as new as the last whole installation: a run that was interrupted is taken up again.
    local python stamp="$root/.venv/.$1-is-installed"
    if ! [ -e "$stamp" ] || [ "$root/pyproject.toml" -nt "$stamp" ]; then
        export PIP_DISABLE_PIP_VERSION_CHECK=1
        python="$(pick_python)"
        in_venv -c '' >/dev/null 2>&1 || "$python" -m venv --clear "$root/.venv"
        install_torch
        echo "Installing response-templates with what '$1' needs ..."
        in_venv -m pip install --quiet --editable "$root[$1]"
        touch "$stamp"
    fi
}
