// Package oracle compares the requests of the model adapter with those of the
// vendors' official Go clients, and the decoding of vectors with the client of
// OpenAI. The other answers are compared with the JavaScript clients:
// wiretest/clients. It is a separate module, so that no plugin depends on the
// clients; it contains tests only.
package oracle
