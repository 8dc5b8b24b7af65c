package build

import (
	"crypto/x509"
	"fmt"
	"net/url"

	"github.com/fermenthq/ferment/host/internal/orchestration/identity"
	"github.com/fermenthq/ferment/host/internal/runtime/config/decode"
	"github.com/fermenthq/ferment/host/internal/runtime/config/diag"
	"github.com/fermenthq/ferment/sdk/edn"
)

// issuers returns the oidc blocks of the auth block (AUTH-005).
func (b *builder) issuers(auth *decode.Section) (out []identity.Issuer) {
	first := map[string]*decode.Section{}
	for _, s := range auth.All("oidc") {
		i := identity.Issuer{
			Name:        s.Label(),
			URL:         s.Text("issuer"),
			Audience:    s.Text("audience"),
			Skew:        s.Duration("skew"),
			Claim:       s.Text("claim"),
			Roles:       b.roleMap(s, "roles"),
			TenantClaim: s.Text("tenant_claim"),
			Authorities: b.authorities(s, "ca_file"),
		}
		i.Algorithms, _ = s.Texts("algorithms")
		if i.URL == "" || i.Audience == "" { // reported as missing or of another type, or empty
			b.empty(s, "issuer", "audience", "claim", "tenant_claim")
			continue
		}
		if u, err := url.Parse(i.URL); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			b.Report.Add(diag.Diagnostic{
				Type:    "config/type",
				Message: s.Node.Title() + ": issuer is not the URL of an issuer",
				Range:   s.Attrs["issuer"].At,
				Path:    s.PathOf("issuer"),
				Found:   edn.Text(i.URL),
				Hint:    "write https://, the host and its path, without a query",
			})
		}
		if twin := first[i.URL]; twin != nil {
			b.Report.Add(diag.Diagnostic{
				Type:    "config/duplicate",
				Message: fmt.Sprintf("%s has the issuer of %s", s.Node.Title(), twin.Node.Title()),
				Range:   s.Attrs["issuer"].At,
				Path:    s.PathOf("issuer"),
				Found:   edn.Text(i.URL),
				Hint:    "merge the two blocks, because one block has all roles of an issuer; the other is at " + twin.Where(),
			})
		}
		b.empty(s, "claim", "tenant_claim")
		first[i.URL] = s
		out = append(out, i)
	}
	return out
}

// empty reports attributes whose text is empty.
func (b *builder) empty(s *decode.Section, attrs ...string) {
	for _, attr := range attrs {
		if s.Written(attr) && !s.Unread(attr) && s.Text(attr) == "" {
			b.Report.Add(diag.Diagnostic{
				Type:     "config/range",
				Message:  s.Node.Title() + ": " + attr + " is empty",
				Range:    s.Attrs[attr].At,
				Path:     s.PathOf(attr),
				Expected: edn.Text("a text that is not empty"),
			})
		}
	}
}

// authorities returns the certificates in a file, in PEM; empty if there are none.
func (b *builder) authorities(s *decode.Section, attr string) string {
	v := s.Attrs[attr]
	if !v.Written || s.Unread(attr) || s.Text(attr) == "" {
		return ""
	}
	problem := func(typ, what string) {
		b.Report.Add(diag.Diagnostic{
			Type:    typ,
			Message: s.Node.Title() + ": " + attr + " " + what,
			Range:   v.At,
			Path:    s.PathOf(attr),
			Found:   edn.Text(s.Text(attr)),
			Hint:    "name a PEM file with the certificates of the authorities",
		})
	}
	if v.Content == nil {
		problem("config/missing", "cannot be read")
		return ""
	}
	if !x509.NewCertPool().AppendCertsFromPEM([]byte(*v.Content)) {
		problem("config/type", "has no certificate")
		return ""
	}
	return *v.Content
}

// certificates returns the users with client certificates (AUTH-001).
func (b *builder) certificates(s *decode.Section) map[string]string {
	v := s.Attrs["subjects"]
	if len(v.Keys) == 0 {
		return nil
	}
	if b.Root.Block("http").Block("tls").Text("client_ca_file") == "" {
		b.Report.Add(diag.Diagnostic{
			Type:    "config/missing",
			Message: "subjects in auth, client_cert requires client_ca_file in http, tls",
			Range:   v.At,
			Path:    s.PathOf("subjects"),
			Hint:    "add http { tls { client_ca_file = ... } }: without an authority no certificate is confirmed",
		})
	}
	return s.Mapping("subjects")
}
