// Package livetest starts model servers of third parties, for tests that must
// not take this repository's word for how servers behave.
//
// The server of Start is inference-server over node-llama-cpp, which is llama.cpp: the
// packages and their versions stand in server/package-lock.json, and
// "npm ci" in that folder fetches them. The model is written by Model: a whole,
// tiny llama with random weights, in which only the output layer is arranged,
// so that it says known things: see Scripts. It speaks openai-chat, with habits
// of its own:
//
//   - the last line of a stream, "data: [DONE]", has no line end;
//   - JSON can be enforced, a schema cannot;
//   - calls of tools arrive whole;
//   - after an error in a stream neither an event nor the end comes;
//   - a client that goes away is not noticed: the answer is made to its end.
//
// The server of StartOllama is Ollama, which speaks all four formats. It is built in
// the folder ollama, a module of its own; include stands in for what its module lacks:
//
//	cd ollama && CPLUS_INCLUDE_PATH=$PWD/include CGO_ENABLED=1 go build -o /tmp/ollama github.com/ollama/ollama
//
// That takes a C++ compiler, the header nlohmann/json.hpp and 14 minutes of a
// processor (v0.17.4). Its habits, by the way it is asked:
//
//   - /api/chat alone refuses a prompt that is too long: the others, and the vectors of
//     /v1, cut it in silence;
//   - /v1/responses says completed of an answer that was cut at its limit, and takes
//     no effort of reasoning;
//   - /v1/messages enforces no schema, counts no tokens, and guesses the input in
//     message_start, which message_delta corrects;
//   - an error inside of a stream of /v1 is an event without it, and the end.
//
// Only tests may import the package; a test holds that. A Server belongs to its
// test and may be asked from several goroutines, two at once.
package livetest
