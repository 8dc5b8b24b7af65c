// Package dialect encodes requests and decodes answers in the four wire formats
// of model servers: openai-chat, openai-responses, anthropic-messages and
// ollama-chat.
//
// A Preset describes the features of a kind of server, and Quirks correct it
// for one model. Encode writes the body of a request; a Decoder reads the
// frames of an answer into a chat.Answer. Anything that a format cannot express
// is reported, never dropped silently.
//
// All functions are pure, except that a Decoder belongs to one answer.
// Unreadable frames give ErrMalformed, errors within a stream an *InBand.
package dialect
