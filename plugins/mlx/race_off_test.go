//go:build !race && unix

package main

import "time"

const refusalLimit = 50 * time.Microsecond
