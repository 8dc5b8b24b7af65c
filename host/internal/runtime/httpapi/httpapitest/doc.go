// Package httpapitest compares exchanges with the OpenAPI document of the daemon, for tests. It
// uses an independent implementation of OpenAPI.
//
// A [Document] is read from GET /openapi.json. Its Check returns an error for a request or response
// that the document does not describe: an unknown path or method, a status without an entry,
// another media type, a body or header that does not fit its schema.
//
// A Document is safe for concurrent use.
package httpapitest
