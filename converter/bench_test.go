package converter_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/rule"
)

// stdFlow is what encoding/json needs to read and write the same rules: every member of rule.Flow, as Rulewire writes it.
type stdFlow struct {
	ClusterConfig          *stdClusterConfig `json:"clusterConfig,omitempty"`
	ClusterMode            bool              `json:"clusterMode"`
	ControlBehavior        int32             `json:"controlBehavior"`
	Count                  float64           `json:"count"`
	Grade                  int32             `json:"grade"`
	HighMemUsageThreshold  int64             `json:"highMemUsageThreshold,omitempty"`
	ID                     int64             `json:"id,omitempty"`
	LimitApp               string            `json:"limitApp"`
	LowMemUsageThreshold   int64             `json:"lowMemUsageThreshold,omitempty"`
	MaxQueueingTimeMs      int64             `json:"maxQueueingTimeMs"`
	MemHighWaterMarkBytes  int64             `json:"memHighWaterMarkBytes,omitempty"`
	MemLowWaterMarkBytes   int64             `json:"memLowWaterMarkBytes,omitempty"`
	RefResource            string            `json:"refResource,omitempty"`
	Regex                  bool              `json:"regex"`
	Resource               string            `json:"resource"`
	StatIntervalInMs       int64             `json:"statIntervalInMs,omitempty"`
	Strategy               int32             `json:"strategy"`
	TokenCalculateStrategy int32             `json:"tokenCalculateStrategy,omitempty"`
	WarmUpColdFactor       int64             `json:"warmUpColdFactor,omitempty"`
	WarmUpPeriodSec        int64             `json:"warmUpPeriodSec"`
}

type stdClusterConfig struct {
	FlowID                  *int64 `json:"flowId,omitempty"`
	ThresholdType           int64  `json:"thresholdType"`
	FallbackToLocalWhenFail bool   `json:"fallbackToLocalWhenFail"`
	SampleCount             int64  `json:"sampleCount"`
	WindowIntervalMs        int64  `json:"windowIntervalMs"`
}

// flow10k is a document as the Dashboard writes it: ten thousand rules, 1.9 MB.
func flow10k() []byte {
	var b bytes.Buffer
	b.WriteByte('[')
	for i := range 10_000 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"clusterMode":false,"controlBehavior":0,"count":%d.0,"grade":1,"id":%d,"limitApp":"default",`+
			`"maxQueueingTimeMs":500,"regex":false,"resource":"/api/v1/orders/%d","strategy":0,"warmUpPeriodSec":10}`, i%500, i+1, i)
	}
	b.WriteByte(']')
	return b.Bytes()
}

func BenchmarkDecodeFlow10k(b *testing.B) {
	data := flow10k()
	c := converter.JSON[rule.Flow]()
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		decoded, err := c.Decode(data)
		if err != nil || len(decoded.Rules) != 10_000 {
			b.Fatal(len(decoded.Rules), err)
		}
	}
}

func BenchmarkStdUnmarshalFlow10k(b *testing.B) {
	data := flow10k()
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		var rules []stdFlow
		if err := json.Unmarshal(data, &rules); err != nil || len(rules) != 10_000 {
			b.Fatal(len(rules), err)
		}
	}
}

func BenchmarkEncodeFlow10k(b *testing.B) {
	c := converter.JSON[rule.Flow]()
	decoded, err := c.Decode(flow10k())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		data, err := c.Encode(decoded.Rules)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(data)))
	}
}

func BenchmarkStdMarshalFlow10k(b *testing.B) {
	var rules []stdFlow
	if err := json.Unmarshal(flow10k(), &rules); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		data, err := json.Marshal(rules)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(data)))
	}
}
