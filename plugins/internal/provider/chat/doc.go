// Package chat defines requests to and answers of a model independently of wire
// formats.
//
// Request is one request: messages, tools, options and the form of the answer.
// Answer collects the answer while its pieces arrive. Both belong to one call
// and are not safe for concurrent use.
package chat
