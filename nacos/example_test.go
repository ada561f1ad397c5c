package nacos_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nacos-group/nacos-sdk-go/v2/clients"
	"github.com/nacos-group/nacos-sdk-go/v2/common/constant"
	"github.com/nacos-group/nacos-sdk-go/v2/vo"

	"github.com/rulewire/rulewire/converter"
	"github.com/rulewire/rulewire/datasource"
	"github.com/rulewire/rulewire/nacos"
	"github.com/rulewire/rulewire/rule"
	"github.com/rulewire/rulewire/writable"
)

// The documents of a service, as Java Sentinel and Spring Cloud Alibaba name them, over one client. No server is needed to
// start: the rules come into force when it is there.
func Example() {
	files := filepath.Join(os.TempDir(), "orders-nacos") // the SDK writes a log wherever it is told to
	client, err := clients.NewConfigClient(vo.NacosClientParam{
		ClientConfig: &constant.ClientConfig{
			NamespaceId: "3f0b6c1e-dev", Username: "orders", Password: os.Getenv("NACOS_PASSWORD"),
			LogDir: files, CacheDir: files, LogLevel: "error", NotLoadCacheAtStart: true, DisableUseSnapShot: true,
		},
		ServerConfigs: []constant.ServerConfig{{IpAddr: "127.0.0.1", Port: 1}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(files)

	flow, err := nacos.NewSource(client, "orders-flow-rules", "SENTINEL_GROUP")
	if err != nil {
		fmt.Println(err)
		return
	}
	manager := rule.NewManager[rule.Flow]()
	rules, err := datasource.New(flow, converter.JSON[rule.Flow](), manager,
		datasource.OnStart(datasource.Empty), datasource.Logger(nil))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rules.Close()
	if err := rules.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(rules.Status().SourceID)
	// Output: nacos:3f0b6c1e-dev/SENTINEL_GROUP/orders-flow-rules
}

// A sink of the same document. The error of a write says what to do next.
func ExampleSink_Write() {
	edit := func(ctx context.Context, sink *nacos.Sink, data []byte) error {
		now, err := sink.Read(ctx)
		if err != nil {
			return err
		}
		expected := now.Revision
		if now.Presence == datasource.Missing {
			expected = writable.Absent
		}
		_, err = sink.Write(ctx, data, expected)
		return err // errors.Is: ErrConflict, ErrTooLarge, ErrUnsupported, ErrUnknownOutcome, nacos.ErrDenied
	}
	_ = edit
}
