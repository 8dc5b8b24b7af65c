// Package tallytest generates random records of runs together with the expected counts.
package tallytest
