// Connects as deploy/README.md says, to a server with the certificates and keys that deploy/nats/secure.sh makes.
//
// Usage: node secured.mjs FOLDER, which has ca.pem and grader.nk

import { readFileSync } from "node:fs";
import { connect, nkeyAuthenticator } from "@nats-io/transport-node";

const folder = process.argv[2];
const nc = await connect({
  servers: process.env.TANDEM_NATS, maxReconnectAttempts: 0,
  tls: { caFile: `${folder}/ca.pem` }, authenticator: nkeyAuthenticator(readFileSync(`${folder}/grader.nk`)),
});
await nc.flush();
await nc.close();
