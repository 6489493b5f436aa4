// Package shim puts llama-server-shim in the place of the llama-server that an Ollama starts, and finds what runs
// then. Without it the KV cache inside an Ollama cannot be reached.
//
// [Overlay] makes a private installation for an Ollama of our own; [Install] changes one that is there already. What the
// program itself does is in the package program.
package shim
