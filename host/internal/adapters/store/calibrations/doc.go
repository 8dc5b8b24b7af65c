// Package calibrations stores the calibration of each judge as a file of the data
// directory.
//
// A [Dir] is safe for concurrent use. A record is replaced atomically; a file
// that cannot be read or is too large is an error that names the judge.
package calibrations
