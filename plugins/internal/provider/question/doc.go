// Package question parses the request envelope of a call: messages, tools,
// options, and the form of the answer.
//
// Read and ReadEmbed are pure functions. Their errors blame the request:
// :input/invalid with the path of the mistake, or :provider/request-invalid
// above a limit.
package question
