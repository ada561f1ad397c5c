package datasourcetest

func sinkGroups() []group { return nil }
