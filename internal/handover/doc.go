// Package handover moves KV states from the machine that computed them to the one that uses them,
// over HTTP.
//
// The protocol, of which the relay stream carries a state's URL, token and size:
//
//	GET    <url>         the bytes: Content-Type application/octet-stream, with Range, so that a broken transfer goes on
//	GET    <url>/digest  their SHA-256, 64 characters of lower-case hex; 202 while it is computed: ask again
//	DELETE <url>         the state is not needed any more: 204
//
// and, of a state that has rows in common with others, those of the prefix that their jobs share:
//
//	GET    <url>/prefix  {"name": …, "rows": [{"offset": …, "bytes": …}, …]}: which parts of the file these are, in its order, and the
//	                     name of what is in them; 202 while that is computed: fetch the whole
//	GET    <url>/rest    the bytes without these parts, also with Range
//
// A receiver that has rows of that name fetches the rest and puts the two together. Either side computes the name of the rows themselves, the
// receiver of rows that were part of a state whose digest was right. It chooses, and proves nothing: what was put together is used only
// if its size and digest are right, as if it had come whole. If any of that fails, the whole is fetched.
//
// The URL ends in /state/ and 128 random bits. Every request carries "Authorization: Bearer <token>", which is valid for
// this state alone. A wrong token, an unknown or a forgotten state and any other path are answered by the same 404. Nothing
// redirects, and HTTP/1.1 is all that is spoken, with or without TLS. A state that was offered is kept for ten minutes,
// and once its job's decode message is published, as long as that message exists. The digest is computed beside the
// transfer, so that it costs no time before the first byte: a reader hashes what it receives, and uses it only when size
// and digest are right.
//
// Files are readable by their owner only, addresses are unguessable, and no log or error names a URL's path or a token.
package handover
