package datasource

import (
	"crypto/sha256"
	"encoding/hex"
)

// hashed remembers the hash of one document, so that a status that is asked for often hashes each document once.
type hashed struct {
	data *byte
	size int
	sum  string
}

func (h *hashed) of(doc Document) string {
	if doc.Presence != Present {
		return ""
	}
	var first *byte
	if len(doc.Data) > 0 {
		first = &doc.Data[0]
	}
	if h.sum == "" || h.data != first || h.size != len(doc.Data) {
		sum := sha256.Sum256(doc.Data)
		h.data, h.size, h.sum = first, len(doc.Data), hex.EncodeToString(sum[:])
	}
	return h.sum
}
