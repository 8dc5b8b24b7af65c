package id

// Scheme determines the algorithms of a store. It is fixed when the store is
// created.
type Scheme struct {
	name    string
	content Alg
	other   Alg
}

// The schemes.
var (
	B3        = Scheme{name: "b3", content: BLAKE3, other: BLAKE3}
	S2        = Scheme{name: "s2", content: SHA256, other: SHA256}
	GitSHA1   = Scheme{name: "git-sha1", content: gitSHA1Alg, other: BLAKE3}
	GitSHA256 = Scheme{name: "git-sha256", content: gitSHA256Alg, other: BLAKE3}
)

// ParseScheme returns the scheme with the name.
func ParseScheme(name string) (Scheme, error) {
	for _, s := range []Scheme{B3, S2, GitSHA1, GitSHA256} {
		if s.name == name {
			return s, nil
		}
	}
	return Scheme{}, invalid("scheme", "%q is not one of the schemes b3, s2, git-sha1, git-sha256", name)
}

// String returns the name.
func (s Scheme) String() string { return s.name }

// Git reports whether content ids are git's object ids.
func (s Scheme) Git() bool { return s.content.git() }

// ContentAlg returns the algorithm of content ids.
func (s Scheme) ContentAlg() Alg { return s.content }

// Alg returns the algorithm of all other ids.
func (s Scheme) Alg() Alg { return s.other }

// Check returns an error if the algorithm of x differs from that of the ids of
// its kind in this scheme.
func (s Scheme) Check(x ID) error {
	want := s.other
	if x.kind == Content {
		want = s.content
	}
	if x.alg != want {
		return invalid("algorithm", "%s has the algorithm %s; the workspace uses %s", x, x.alg, want)
	}
	return nil
}
