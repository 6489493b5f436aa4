#!/bin/bash
# notebooks.sh: fetches Debian packages that ship notebooks, unpacks them into a folder without installing them, and prints that folder. For make self-match.
set -euo pipefail

packages="python-statsmodels-doc python-fluids-doc python-nbsphinx-doc python3-nbclient python3-nb2plots python-ipyparallel-doc
	python-sympy-doc python-notebook-doc python3-rioxarray python-pydicom-doc python-xarray-doc python-pyswarms-doc python3-redis
	python-lmfit-doc python-pandas-doc python-pint-doc polymake-common python-lark-doc python3-metakernel python-mdtraj-doc
	python-sphinx-gallery-doc python3-graphviz python3-streamz python3-transitions python3-textdistance python3-pymap3d"

cache=${TANDEM_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/tandem}/notebooks
mkdir -p "$cache/deb" "$cache/files"
cd "$cache/deb"
for p in $packages; do
	if ! compgen -G "${p}_*.deb" >/dev/null; then
		apt-get download -qq "$p" >&2
		dpkg -x "${p}"_*.deb "$cache/files/$p"
	fi
done
find "$cache/files" -type f -name '*.ipynb.gz' -exec gunzip -f {} +
echo "$cache/files"
