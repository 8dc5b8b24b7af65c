// Package configtest holds files and plugin descriptions for tests of the configuration.
//
// [Load] loads a text with two described chess plugins, [LoadDir] a directory that [Lay] wrote.
// [Golden] compares a text with a committed file.
//
// All functions fail the test on an error. They may be called concurrently.
package configtest
