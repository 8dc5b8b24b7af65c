package wire

import (
	"google.golang.org/grpc"
)

const (
	// MaxMessage is the largest message in either direction, in bytes.
	MaxMessage = 16 << 20

	// BlobThreshold is the length in bytes above which a string is sent as a
	// blob.
	BlobThreshold = 64 << 10

	// MaxString is the longest string in a wire payload or blob, in bytes.
	MaxString = 8 << 20
)

// Window and buffer sizes were measured on unix sockets with payloads from 200
// B to 1 MiB: larger windows transfer a large answer without a round trip for
// flow control, larger buffers save system calls up to 64 KiB.
const (
	streamWindow = 4 << 20
	connWindow   = 16 << 20
	ioBuffer     = 128 << 10
	workers      = 16
)

// ServerOptions returns the options of every gRPC server of this contract.
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

// DialOptions returns the options of every gRPC connection of this contract.
// They replace go-plugin's limits, which allow an answer of any size.
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
