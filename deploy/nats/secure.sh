#!/usr/bin/env bash
# Usage: secure.sh OUT ADDRESS...
# Writes into the new folder OUT what security.conf names: a certificate authority, the server's certificate for its addresses
# (IP addresses or host names), an nkey for workers and one for graders, and security.conf itself with the public keys.
# Needs openssl, and nk (`make nats` builds it into bin/).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
PATH=$here/../../bin:$PATH

[ $# -ge 2 ] || { echo "usage: $0 OUT ADDRESS..." >&2; exit 2; }
out=$1
shift
command -v nk >/dev/null || { echo "secure: found no nk: run 'make nats' first" >&2; exit 1; }
umask 077
mkdir "$out" || { echo "secure: $out must be new: keys are never written over" >&2; exit 1; }

names=
for address in "$@"; do
  if [[ $address =~ ^[0-9.]+$ || $address == *:* ]]; then kind=IP; else kind=DNS; fi
  names=$names,$kind:$address
done

# The whole of what openssl is to write: what it adds by itself depends on its version and on the machine's openssl.cnf, and clients
# that go by the letter of RFC 5280 refuse certificates that say too little, or the same thing twice.
cat >"$out/openssl.cnf" <<END
[req]
distinguished_name = name
[name]
[ca]
basicConstraints = critical, CA:TRUE, pathlen:0
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
subjectAltName = ${names#,}
END
export OPENSSL_CONF=$out/openssl.cnf
key=(-newkey ec -pkeyopt ec_paramgen_curve:P-256 -pkeyopt ec_param_enc:named_curve -nodes)
openssl req -x509 "${key[@]}" -days 3650 -subj "/CN=Tandem CA" -extensions ca -keyout "$out/ca-key.pem" -out "$out/ca.pem" 2>/dev/null
openssl req "${key[@]}" -subj "/CN=Tandem NATS" -keyout "$out/server-key.pem" -out "$out/server.csr" 2>/dev/null
openssl x509 -req -in "$out/server.csr" -CA "$out/ca.pem" -CAkey "$out/ca-key.pem" -CAcreateserial -days 825 \
  -extfile "$OPENSSL_CONF" -extensions server -out "$out/server.pem" 2>/dev/null
rm -f "$out/server.csr" "$out/openssl.cnf" "$out/ca.srl"

for party in worker grader; do
  printf %s "$(nk -gen user)" >"$out/$party.nk" # the client for JavaScript takes no line's end for a part of a key
done
sed -e "s/WORKER_PUBLIC_KEY/$(nk -inkey "$out/worker.nk" -pubout)/" \
  -e "s/GRADER_PUBLIC_KEY/$(nk -inkey "$out/grader.nk" -pubout)/" "$here/security.conf" >"$out/security.conf"

echo "secure: wrote $out; keep ca-key.pem off the machines, and give each party only its own .nk file and ca.pem"
