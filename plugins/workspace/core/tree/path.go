package tree

import "strings"

// Join returns the path of an entry of a directory.
func Join(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}

// Parent returns the directory of a path. The parent of the root is the root.
func Parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// Depth returns the number of components of a path, 0 for the root.
func Depth(path string) int {
	if path == "" {
		return 0
	}
	return strings.Count(path, "/") + 1
}

// Below reports whether a path is dir or below it.
func Below(path, dir string) bool {
	return dir == "" || strings.HasPrefix(path, dir) && (len(path) == len(dir) || path[len(dir)] == '/')
}
