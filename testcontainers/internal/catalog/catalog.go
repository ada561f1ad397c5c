// Package catalog says which image runs which store. It is the one list that the helpers and "make images" share.
package catalog

// Store is a server that the tests run.
type Store struct {
	// Name is the store's name, as in "make images STORE=name".
	Name string
	// ImageEnv names the variable that overrides the image.
	ImageEnv string
	// Official is the image that its makers publish.
	Official string
	// Local is the image that "make images" builds of the same server from packages.
	Local string
}

// The stores.
var (
	Etcd   = Store{"etcd", "RULEWIRE_ETCD_IMAGE", "quay.io/coreos/etcd:v3.7.3", "rulewire/etcd:3.7.3"}
	Redis  = Store{"redis", "RULEWIRE_REDIS_IMAGE", "redis:7.2.7", "rulewire/redis:7.0-debian"}
	Consul = Store{"consul", "RULEWIRE_CONSUL_IMAGE", "hashicorp/consul:1.20.2", "rulewire/consul:1.14.11"}
	Nacos  = Store{"nacos", "RULEWIRE_NACOS_IMAGE", "nacos/nacos-server:v2.3.2", "rulewire/nacos:2.3.2"}
)

// All lists them; the one that takes longest to build comes last.
func All() []Store { return []Store{Etcd, Redis, Nacos, Consul} }
