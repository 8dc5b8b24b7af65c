// Package kebab converts the names of Go fields to keys, for edn and schema
// alike.
package kebab
