// Package tables counts tokens by the tables of the models of OpenAI, which come
// with the program: nothing is fetched.
//
// For finds the table of a model by its name. A table is loaded when something is
// counted for the first time, beside whoever waits for it, and stays for the life
// of the process: about 7 MiB for the newer table, 3.5 MiB for the older one, and
// 10 MB of program for both. So only programs that need them import the package.
//
// A Table is safe for concurrent use. It counts a long text in parts and looks
// between them whether anybody still waits, so that no text, however hostile,
// holds it for long.
package tables
