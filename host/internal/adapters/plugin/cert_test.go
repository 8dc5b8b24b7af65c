//go:build linux

package plugin

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"math/big"
	"sync"
	"time"
)

// testCertificate is the DER form of a certificate without a known key.
var testCertificate = sync.OnceValue(func() []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	return certificateOf(key)
})

// certificateOf returns a self-signed certificate of the key.
func certificateOf(key *ecdsa.PrivateKey) []byte {
	form := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return der
}
