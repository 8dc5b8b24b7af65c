// Package question reads what a call asks out of its request envelope: messages,
// tools, options, and the form that the answer should have.
//
// Read and ReadEmbed are pure functions. Their errors are those of the request:
// :input/invalid with the path of what is wrong, or :provider/request-invalid
// beyond a limit.
package question
