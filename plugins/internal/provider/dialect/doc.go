// Package dialect writes questions and reads answers in the four wire formats
// that model servers speak: openai-chat, openai-responses, anthropic-messages and
// ollama-chat.
//
// A Preset says what a server of some kind can do, and Quirks correct it for
// one model. Encode writes the body of a request, Decoder reads the frames of
// an answer into a chat.Answer. What a format cannot say is reported, never
// left out in silence.
//
// Everything here is a pure function of its input, except that a Decoder
// belongs to one answer. Frames that cannot be read give ErrMalformed, errors
// that a provider sends in the middle of a stream give an *InBand.
package dialect
