// Writes the state of a few tokens with an older llama.cpp, as the files in this folder were:
//
//   npm install --ignore-scripts --omit=optional node-llama-cpp@3.16.2 @node-llama-cpp/linux-x64@3.16.2   (b8121, format 2; 3.22.1 is v0.5.0, format 3)
//   node save.mjs MODEL.gguf FILE
//
// The models are those of internal/tinymodel with BPE tokens, as the tests leave them in the cache folder.
import { getLlama } from "node-llama-cpp";

const [model, file] = process.argv.slice(2);
const llama = await getLlama({ gpu: false, build: "never", logLevel: "error" });
const loaded = await llama.loadModel({ modelPath: model });
const context = await loaded.createContext({ contextSize: 512, sequences: 1, threads: 1, flashAttention: true });
const sequence = context.getSequence();
await sequence.evaluateWithoutGeneratingNewTokens(loaded.tokenize("The mean of it is"));
await sequence.saveStateToFile(file);
process.exit(0);
