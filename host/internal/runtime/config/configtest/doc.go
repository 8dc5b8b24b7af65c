// Package configtest holds the files and plugins that tests of the configuration
// share.
//
// [Load] loads a text with two described chess plugins, [LoadDir] a directory that
// [Lay] wrote. [Golden] compares a text with a committed file.
//
// All functions fail the test on an error; they may be called concurrently.
package configtest
