// Package chat holds what is asked of a model and what it said, apart from the
// way in which a provider writes it down.
//
// Request is one question: messages, tools, options and the form that the
// answer should have. Answer collects the answer while its pieces arrive. Both
// belong to one call and are not safe for concurrent use.
package chat
