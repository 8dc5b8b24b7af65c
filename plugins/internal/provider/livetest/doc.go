// Package livetest starts a model server of somebody else, for tests that must
// not take this repository's word for how servers behave.
//
// The server is inference-server over node-llama-cpp, which is llama.cpp: the
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
// Only tests may import the package; a test holds that. A Server belongs to its
// test and may be asked from several goroutines, two at once.
package livetest
