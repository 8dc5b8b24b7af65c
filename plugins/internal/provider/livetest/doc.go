// Package livetest starts model servers of third parties, so that tests check the
// behavior of real servers instead of this repository's model of it.
//
// The server of Start is inference-server over node-llama-cpp, which wraps llama.cpp.
// The packages and their versions are listed in server/package-lock.json; "npm ci" in
// that folder installs them. Model writes the model: a complete, tiny llama with random
// weights, except that its output layer makes it generate known texts, see Scripts. The
// server supports openai-chat, with these peculiarities:
//
//   - the last line of a stream, "data: [DONE]", has no line end;
//   - it can enforce JSON, but not a schema;
//   - a tool call arrives in one piece;
//   - after an error in a stream, neither an event nor the formal end follows;
//   - it does not notice that a client has disconnected, and finishes the answer.
//
// The server of StartOllama is Ollama, which supports all four formats. It is built in
// the folder ollama, a module of its own; the folder include replaces files that the
// module of Ollama lacks:
//
//	cd ollama && CPLUS_INCLUDE_PATH=$PWD/include CGO_ENABLED=1 go build -o /tmp/ollama github.com/ollama/ollama
//
// The build needs a C++ compiler, the header nlohmann/json.hpp and 14 minutes of CPU
// time (v0.17.4). The peculiarities of its endpoints are:
//
//   - only /api/chat rejects a prompt that is too long: the others, and the embeddings
//     of /v1, cut it silently;
//   - /v1/responses reports the status completed for an answer that was cut at its
//     limit, and accepts no reasoning effort;
//   - /v1/messages enforces no schema, does not count tokens, and estimates the input
//     tokens in message_start, which message_delta corrects;
//   - an error in a stream of /v1 is an event without the error, then the end.
//
// Only tests may import the package; a test checks that. A Server belongs to its test.
// It is safe for concurrent use and answers two requests at once.
package livetest
