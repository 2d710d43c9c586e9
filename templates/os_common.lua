%-- What the output-stationary kernels share: arithmetic for their declarations, and
%-- functions that write pieces of their bodies.
%
%function ceil_div(a, b) return (a + b - 1) // b end
%function element_bytes(problem) return problem.dtype == "f16" and 2 or 4 end
%-- f32 keeps two tf32 images of the weights, the large part and the rest.
%function images(problem) return problem.dtype == "f32" and 2 or 1 end
%
%-- v[i] = value, plus the bias of output channel co + i where the row is stored.
%function write_lane_values(count, value)
            SPC_UNROLL
            for (int i = 0; i < $(count); i++) {
                v[i] = $(value);
% if problem.bias == 1 then
                if (store)
                    v[i] += spc_load_f32(args->bias + co + i);
% end
            }
%end
%
%-- The 16 bytes of output `w` from the floats `v`.
%function write_lane_words()
% for i, name in ipairs {"x", "y", "z", "w"} do
%   if problem.dtype == "f16" then
            w.$(name) = spc_pack_f16(v[$(2 * i - 2)], v[$(2 * i - 1)]);
%   else
            w.$(name) = spc_f32_bits(v[$(i - 1)]);
%   end
% end
%end
%
%-- The end of a packing kernel: the words `v` are 16 bytes number `item`.
%function write_packed(item)
    spc_b16 w;
    w.x = v[0];
    w.y = v[1];
    w.z = v[2];
    w.w = v[3];
    spc_store16((spc_u8 *)args->packed + $(item) * 16, w);
    spc_fence_global();
%end
