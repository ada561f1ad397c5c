package etcd

import clientv3 "go.etcd.io/etcd/client/v3"

// MemoryClient gives the examples a client of a server in memory.
func MemoryClient() (client *clientv3.Client, stop func(), err error) {
	s, stopServer := startServer()
	client, err = s.connect()
	return client, func() {
		_ = client.Close()
		stopServer()
	}, err
}
