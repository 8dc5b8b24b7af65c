package wire

import (
	"google.golang.org/grpc"
)

const (
	// MaxMessage is the largest message in either direction, in bytes.
	MaxMessage = 16 << 20

	// BlobThreshold is the length in bytes above which a string leaves the
	// payload and travels as a blob.
	BlobThreshold = 64 << 10

	// MaxString is the longest string that the reader of wire payloads takes,
	// so the longest that a blob may hold.
	MaxString = 8 << 20
)

// Window and buffer sizes were measured on unix sockets with payloads from
// 200 B to 1 MiB: larger windows let one big answer through without a round
// trip for flow control, larger buffers save system calls up to 64 KiB.
const (
	streamWindow = 4 << 20
	connWindow   = 16 << 20
	ioBuffer     = 128 << 10
	workers      = 16
)

// ServerOptions are the options of every gRPC server of this contract.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessage),
		grpc.MaxSendMsgSize(MaxMessage),
		grpc.MaxHeaderListSize(MaxHeaders),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.ReadBufferSize(ioBuffer),
		grpc.WriteBufferSize(ioBuffer),
		grpc.NumStreamWorkers(workers),
		grpc.ForceServerCodecV2(newCodec()),
	}
}

// DialOptions are the options of every gRPC connection of this contract. They
// replace go-plugin's own limits, which let an answer be as large as memory.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(MaxMessage),
			grpc.MaxCallSendMsgSize(MaxMessage),
			grpc.ForceCodecV2(newCodec()),
		),
		grpc.WithMaxHeaderListSize(MaxHeaders),
		grpc.WithInitialWindowSize(streamWindow),
		grpc.WithInitialConnWindowSize(connWindow),
		grpc.WithReadBufferSize(ioBuffer),
		grpc.WithWriteBufferSize(ioBuffer),
		grpc.WithDisableRetry(),
	}
}
