package datasourcetest

import (
	"fmt"
	"strings"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/rule"
)

// document gives the bytes of a document with the rules "resource=count resource=count".
func document(rules string) []byte {
	parts := []string{}
	for _, r := range strings.Fields(rules) {
		resource, count, _ := strings.Cut(r, "=")
		parts = append(parts, fmt.Sprintf(`{"resource":%q,"count":%s}`, resource, count))
	}
	return []byte("[" + strings.Join(parts, ",") + "]")
}

// flowConverter is the one that users of Java documents have, so that the suite exercises real documents.
func flowConverter() converter.Converter[rule.Flow] { return converter.JSON[rule.Flow]() }
