// Package oracle compares the requests of the model adapter with those that the
// official Go clients of the vendors write, and has the client of OpenAI read vectors.
// The other answers are compared with the JavaScript clients: wiretest/clients. It is a
// module of its own, so that nothing of the clients reaches a plugin; it holds tests
// only.
package oracle
