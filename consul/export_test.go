package consul

import "github.com/hashicorp/consul/api"

// MemoryClient gives the examples a client of a server in memory.
func MemoryClient() (client *api.Client, stop func(), err error) {
	s, stop := startServer()
	client, err = s.connect()
	return client, stop, err
}
