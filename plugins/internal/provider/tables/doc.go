// Package tables counts tokens with the tables of OpenAI's models, which are
// embedded in the program; nothing is downloaded.
//
// For returns the table of a model by its name. A table is loaded in the
// background at its first use and stays for the life of the process: about 7
// MiB for the newer table, 3.5 MiB for the older one, and 10 MB of program size
// for both. Only programs that need them should import the package.
//
// A Table is safe for concurrent use. It counts a long text in parts and checks
// the context between them, so that no text blocks it for long.
package tables
